"""`moldau produce`, `consume` and `tail`: records in and out, and the forms in which people type and read them."""
