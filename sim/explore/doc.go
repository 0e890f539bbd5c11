// Package explore tries everything. Where package sim draws schedules by chance, this
// goes through all states that a small world can be in: one slot, two agents, one
// person, a link that loses, doubles and swaps messages, and a daemon that dies and is
// started again, before and after each commit.
//
// What decides is the shipped code: core.Step with core.CheckInvariants after each step,
// the fence register of daemon/fence, under the rules by which package engine uses it,
// and the host's gate of host/gate. Only the extension is modelled (extension.go): its
// gate, its hold, its mark, its pulls and its drain. A test holds that model's gate
// against the vectors that the extension's own and the host's are held against, and a
// test of package sim plays the same messages to it and to the extension's own modules.
//
// States are hashed in a canonical form, without wording and wall clocks, and visited
// breadth first, each once. What is bounded is how often agents, the person and faults
// do something (Bounds); within that nothing is left out.
package explore
