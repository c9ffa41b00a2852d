"""`moldau log`: files of partitions, without a broker."""
