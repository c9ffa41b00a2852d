"""Who may do what, and how much of it: authorizers and quotas, as rules that know neither clock nor socket. Imports
types, metrics and the image; the server asks, it never decides itself.
"""
