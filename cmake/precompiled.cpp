// CMake precompiles headers for targets, and a target has a source.
