//! The command line from outside: what it prints, what it exits with, what it does with bad input.
