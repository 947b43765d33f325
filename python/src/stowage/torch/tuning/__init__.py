"""Plans found by running them."""
