"""What a plan is expected to take on calibrated devices."""
