// SPDX-License-Identifier: MIT

// A token goes round a ring of goroutines over unbuffered channels, counting down; ns for one hop.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func hop(in <-chan int, out chan<- int, done chan<- bool) {
	for n := range in {
		if n == 0 {
			done <- true
		} else {
			out <- n - 1
		}
	}
}

func turn(first chan<- int, done <-chan bool, hops int) time.Duration {
	start := time.Now()
	first <- hops
	<-done
	return time.Since(start)
}

func main() {
	hops, _ := strconv.Atoi(os.Args[1])
	processes, _ := strconv.Atoi(os.Args[2])
	done := make(chan bool)
	first := make(chan int)
	in := first
	for i := 1; i < processes; i++ {
		out := make(chan int)
		go hop(in, out, done)
		in = out
	}
	go hop(in, first, done)
	turn(first, done, hops/10)
	fmt.Printf("ns %.3f\n", float64(turn(first, done, hops).Nanoseconds())/float64(hops))
}
