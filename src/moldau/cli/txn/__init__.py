"""`moldau txn`: transactions, those that hang among them."""
