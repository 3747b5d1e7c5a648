package node

import _ "embed"

// Wiring is the table of messages: sender, receiver, messages. "(outside)" is any sender or
// receiver that is no actor. tests/arch computes it from the code. It fails if the table differs
// or if a message has no sender.
//
//go:embed wiring.txt
var Wiring string
