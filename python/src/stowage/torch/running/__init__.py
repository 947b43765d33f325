"""Plans that run: on streams, threads, or in several processes."""
