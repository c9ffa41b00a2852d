"""The commands a person types. May import everything of ours, but lazily: a command pays only for what it uses."""
