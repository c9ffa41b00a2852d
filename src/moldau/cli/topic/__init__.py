"""`moldau topic`: topics made, looked at, changed and removed."""
