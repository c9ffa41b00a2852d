"""`moldau cluster`: what a cluster is made of, whether it is well, and a cluster of processes on this host."""
