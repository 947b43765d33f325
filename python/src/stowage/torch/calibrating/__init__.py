"""Machines and times of ops, measured on the devices."""
