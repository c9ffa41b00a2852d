"""`moldau demo`: events, Spark queries, a crash in the middle, and the proof that the results are exact.

`command` is the command; `show` runs generator and job as processes of their own and draws `view`. `events` and
`expected` are pure: what is sent, and what must come out of it, computed without Spark. `crash` is the short demo of
the broker alone. May import everything; Spark only inside the job's process.
"""
