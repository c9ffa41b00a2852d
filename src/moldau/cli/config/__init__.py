"""`moldau config`: settings of whatever has some."""
