"""Who may do what, and how much of it: authorizer and quotas. Imports types only; the server asks, it never decides
itself.
"""
