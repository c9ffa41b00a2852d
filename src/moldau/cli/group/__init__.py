"""`moldau group`: consumer groups, their lag, and where they read on."""
