// SPDX-License-Identifier: MIT

// Start a goroutine, let it finish, know that it did; ns for one.
//
//	ns        one after the other, told by an unbuffered channel
//	batch_ns  64 at a time, told by a WaitGroup
package main

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"
)

func single(n int) {
	done := make(chan bool)
	for i := 0; i < n; i++ {
		go func() { done <- true }()
		<-done
	}
}

func batches(n int) {
	for i := 0; i < n; i += 64 {
		var all sync.WaitGroup
		all.Add(64)
		for j := 0; j < 64; j++ {
			go all.Done()
		}
		all.Wait()
	}
}

func report(name string, body func(int), n int) {
	body(n / 640 * 64)
	start := time.Now()
	body(n)
	fmt.Printf("%s %.3f\n", name, float64(time.Since(start).Nanoseconds())/float64(n))
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	report("ns", single, n)
	report("batch_ns", batches, n/64*64)
}
