"""`moldau broker`: a broker in the foreground, those of this machine, and the data of others taken over."""
