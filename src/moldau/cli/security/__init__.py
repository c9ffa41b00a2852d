"""`moldau security`: who may log in, who may do what and how much."""
