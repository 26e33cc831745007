//! The simulation: whole lives of a broker from a seed, with crashes between any two steps and an oracle that knows what was promised.
