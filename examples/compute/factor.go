package main

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"github.com/stint-tasks/stint"
)

// A computation is named by what it computes, and the name is the ID of its task. This one finds
// the two prime factors of a number by trying all divisors: long to do, easy to verify.
const factorPrefix = "factor/"

// actionFactor is the action of the tasks.
const actionFactor = "factor"

func factorTask(id stint.TaskID) stint.Task {
	return stint.Task{ID: id, Action: actionFactor, PostResult: true}
}

// factorName names the computation with that number out of a series. Its length is that of hardest,
// or a half of it, a quarter, and so on.
func factorName(number int, hardest uint64) stint.TaskID {
	const lengths, stride = 6, 1_000
	const larger = 5_000_000_000
	k := uint64(number) //nolint:gosec // not negative
	p := nextPrime(hardest>>(k%lengths) + k*stride)
	q := nextPrime(larger + k*stride)
	return stint.TaskID(factorPrefix + strconv.FormatUint(p*q, 10))
}

func nextPrime(n uint64) uint64 {
	n |= 1
	for !isPrime(n) {
		n += 2
	}
	return n
}

func isPrime(n uint64) bool {
	return new(big.Int).SetUint64(n).ProbablyPrime(0) // Exact for 64 bits.
}

// factor performs a computation, unless ctx ends.
func factor(ctx context.Context, id stint.TaskID) (string, error) {
	n, err := factored(id)
	if err != nil {
		return "", err
	}
	const between = 1 << 16 // How many divisors it tries before it looks at ctx.
	for p := uint64(3); p*p <= n; p += 2 {
		if n%p == 0 {
			return fmt.Sprintf("%d * %d", p, n/p), nil
		}
		if p%between == 1 && ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
	}
	return "", fmt.Errorf("%s: has no two odd factors", id)
}

func factored(id stint.TaskID) (uint64, error) {
	digits, found := strings.CutPrefix(string(id), factorPrefix)
	if !found {
		return 0, fmt.Errorf("%q names no computation", string(id))
	}
	return strconv.ParseUint(digits, 10, 63)
}

// verify returns an error unless value is the result of a computation. A number is the product of
// primes in one way only, so it need not compute anything.
func verify(id stint.TaskID, value string) error {
	n, err := factored(id)
	if err != nil {
		return err
	}
	left, right, _ := strings.Cut(value, " * ")
	p, leftErr := strconv.ParseUint(left, 10, 32)
	q, rightErr := strconv.ParseUint(right, 10, 63)
	if err := errors.Join(leftErr, rightErr); err != nil {
		return fmt.Errorf("%s = %q: %w", id, value, err)
	}
	product, of := new(big.Int).SetUint64(p), new(big.Int).SetUint64(q)
	switch {
	case product.Mul(product, of).Cmp(new(big.Int).SetUint64(n)) != 0:
		return fmt.Errorf("%s = %q: that is the product of another number", id, value)
	case p > q || !isPrime(p) || !isPrime(q):
		return fmt.Errorf("%s = %q: not two primes in order", id, value)
	}
	return nil
}
