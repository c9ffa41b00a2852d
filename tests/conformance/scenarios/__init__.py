"""Duty: the scenarios, one module per area; may import the session and its helpers only."""
