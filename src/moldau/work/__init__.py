"""How long work shares the event loop with everything else; imports nothing of ours."""
