package main

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
)

// image is a file system as it is found when the power is back: content by path. A
// directory has none.
type image map[string][]byte

// choice says what of that which was not safe is on the disk.
type choice struct {
	what   string
	sector int64
	// take says whether a piece of a pending change is there. A change that is not a write
	// is one piece.
	take func(change, piece, pieces int) bool
	// grown: files have the lengths that their writes gave them, whether or not the bytes
	// are there.
	grown bool
	// noise is what was never written reads as; nil: zeros.
	noise *rand.Rand
}

// image makes the file system of a choice.
func (d *disk) image(c choice) image {
	out := image{}
	d.put(out, c, ".", d.top)
	return out
}

func (d *disk) put(out image, c choice, path string, n *node) {
	if !n.dir {
		out[path] = d.content(c, n)
		return
	}
	out[path] = nil
	names := maps.Clone(n.names)
	for i, p := range d.pending {
		switch {
		case p.of != n || !c.take(i, 0, 1):
		case p.to == nil:
			delete(names, p.name)
		default:
			names[p.name] = p.to
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		d.put(out, c, filepath.Join(path, name), names[name])
	}
}

func (d *disk) content(c choice, n *node) []byte {
	length := int64(len(n.data))
	if c.grown {
		for _, p := range d.pending {
			if p.of == n && !p.length {
				length = max(length, p.at+int64(len(p.data)))
			}
		}
	}
	data := make([]byte, len(n.data), length)
	copy(data, n.data)
	if n.mapped {
		data = data[:0]
		length = shmBytes
	}
	data = c.extend(data, length)
	for i, p := range d.pending {
		switch {
		case p.of != n:
		case p.length && c.take(i, 0, 1):
			if p.at < int64(len(data)) {
				data = data[:p.at]
			}
			data = c.extend(data, p.at)
		case !p.length:
			data = c.apply(data, i, p)
		}
	}
	return data
}

// shmBytes is the size of one region of SQLite's shared memory file.
const shmBytes = 32 << 10

// apply writes those pieces of a write that are there.
func (c choice) apply(data []byte, i int, p change) []byte {
	end := p.at + int64(len(p.data))
	first := p.at / c.sector
	pieces := int((end-1)/c.sector - first + 1)
	for k := range pieces {
		if !c.take(i, k, pieces) {
			continue
		}
		from := max(p.at, (first+int64(k))*c.sector)
		to := min(end, (first+int64(k)+1)*c.sector)
		data = c.extend(data, to)
		copy(data[from:to], p.data[from-p.at:to-p.at])
	}
	return data
}

// extend makes data n bytes long, if it is shorter, by what was never written.
func (c choice) extend(data []byte, n int64) []byte {
	for from := int64(len(data)); from < n; {
		data = slices.Grow(data, int(n-from))[:n]
		clear(data[from:])
		if c.noise == nil {
			return data
		}
		var word [8]byte
		for ; from < n; from += 8 {
			binary.LittleEndian.PutUint64(word[:], c.noise.Uint64())
			copy(data[from:], word[:])
		}
	}
	return data
}

var hashSeed = maphash.MakeSeed()

// sum tells images apart.
func (m image) sum() uint64 {
	var h maphash.Hash
	h.SetSeed(hashSeed)
	for _, path := range slices.Sorted(maps.Keys(m)) {
		data := m[path]
		maphash.WriteComparable(&h, len(path))
		h.WriteString(path)
		maphash.WriteComparable(&h, len(data))
		h.Write(data)
	}
	return h.Sum64()
}

// choices returns the round-th choice at a point with so many pending changes. The first
// rounds go through what is most likely to matter, then what is systematic and what is
// drawn take turns; there is no last one.
func choices(d *disk, round int, rng *rand.Rand) choice {
	n := len(d.pending)
	plain := func(what string, take func(i, piece, pieces int) bool) choice {
		return choice{what: what, sector: 512, take: take}
	}
	last := n - 1
	fixed := []func() choice{
		func() choice { return plain("nothing", func(int, int, int) bool { return false }) },
		func() choice { return plain("all", func(int, int, int) bool { return true }) },
		func() choice {
			return plain("the last torn: its first half", func(i, k, of int) bool { return i != last || k < of/2 })
		},
		func() choice {
			return plain("the last torn: its second half", func(i, k, of int) bool { return i != last || k >= of/2 })
		},
		func() choice {
			return plain("the last torn: all but a sector", func(i, k, of int) bool { return i != last || k != of/2 })
		},
		func() choice {
			c := plain("lengths only", func(int, int, int) bool { return false })
			c.grown = true
			return c
		},
		func() choice {
			c := plain("lengths only, over noise", func(int, int, int) bool { return false })
			c.grown, c.noise = true, rng
			return c
		},
	}
	if round < len(fixed) {
		return fixed[round]()
	}
	round -= len(fixed)
	if n > 0 && round%2 == 0 && round/2 < 4*n {
		i := round / 2
		switch j := i / 4; i % 4 {
		case 0:
			return plain("without one", func(i, _, _ int) bool { return i != j })
		case 1:
			return plain("the first ones", func(i, _, _ int) bool { return i <= j })
		case 2:
			return plain("the last ones", func(i, _, _ int) bool { return i > j })
		default:
			return plain("one alone", func(i, _, _ int) bool { return i == j })
		}
	}
	return drawn(rng)
}

// drawn is a choice by chance: how much is there, how finely it is torn, and what stands
// where nothing was written.
func drawn(rng *rand.Rand) choice {
	c := choice{what: "drawn", sector: []int64{512, 4096}[rng.IntN(2)], grown: rng.IntN(2) == 0}
	if rng.IntN(2) == 0 {
		c.noise = rng
	}
	share := []float64{0.1, 0.5, 0.9, 0.98}[rng.IntN(4)]
	tear := []float64{0, 0.1, 0.5}[rng.IntN(3)]
	whole := map[int]int{} // 1: there, 2: not, 3: piece by piece
	c.take = func(i, _, _ int) bool {
		v, ok := whole[i]
		if !ok {
			v = 2
			switch {
			case rng.Float64() < tear:
				v = 3
			case rng.Float64() < share:
				v = 1
			}
			whole[i] = v
		}
		return v == 1 || v == 3 && rng.Float64() < share
	}
	return c
}
