package node

import _ "embed"

// Wiring is the table of who sends which messages to whom: sender, receiver, messages.
// "(outside)" is whatever is no actor. tests/arch computes it from the code, and
// fails if it differs or if a message is sent by nobody.
//
//go:embed wiring.txt
var Wiring string
