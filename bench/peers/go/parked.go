// SPDX-License-Identifier: MIT

// Resident bytes of a goroutine that waits on a channel.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

func resident() int {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		panic(err)
	}
	var total, pages int
	fmt.Sscan(string(statm), &total, &pages)
	return pages * os.Getpagesize()
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	never := make(chan int)
	resident()
	before := resident()
	for i := 0; i < n; i++ {
		go func() { <-never }()
	}
	time.Sleep(500 * time.Millisecond)
	fmt.Printf("bytes %.1f\n", float64(resident()-before)/float64(n))
}
