"""Files written by this version and every later one, which every later version has to read."""
