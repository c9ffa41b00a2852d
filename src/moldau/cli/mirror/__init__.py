"""`moldau mirror`: topics of one cluster kept up in another."""
