"""Checks of the tree itself: sizes, names, forbidden calls, and that the documents still say the truth."""
