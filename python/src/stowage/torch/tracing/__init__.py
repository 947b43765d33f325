"""Steps of modules as graphs, and the times of their ops one by one."""
