#!/usr/bin/env node
// Starts the program. It is in the repository, because npm links it before the first build.
import '../dist/main.js'
