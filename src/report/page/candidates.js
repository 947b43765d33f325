// candidates
