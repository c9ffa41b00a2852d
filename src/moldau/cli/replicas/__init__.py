"""Where replicas shall be, and whether they hold the same: rules under the tools that move and compare them."""
