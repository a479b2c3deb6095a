// SPDX-License-Identifier: MIT

// One integer to and fro between two goroutines over two unbuffered channels; ns for one message,
// half a round trip.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func play(there, back chan int, rounds int) time.Duration {
	start := time.Now()
	for i := 0; i < rounds; i++ {
		there <- i
		if <-back != i {
			panic("a message was lost")
		}
	}
	return time.Since(start)
}

func main() {
	messages, _ := strconv.Atoi(os.Args[1])
	rounds := messages / 2
	there, back := make(chan int), make(chan int)
	taken := make(chan time.Duration)
	go func() {
		for i := range there {
			back <- i
		}
	}()
	go func() {
		play(there, back, rounds/10)
		taken <- play(there, back, rounds)
	}()
	ns := float64((<-taken).Nanoseconds()) / float64(2*rounds)
	fmt.Printf("ns %.3f\n", ns)
}
