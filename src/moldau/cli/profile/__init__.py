"""`moldau profile`: clusters with a name, and the file in which they are."""
