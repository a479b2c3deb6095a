// SPDX-License-Identifier: MIT

// A goroutine that sleeps for 1 ms, again and again, beside endless loops, on all cores.
package main

import (
	"fmt"
	"os"
	"sort"
	"strconv"
	"time"
)

func milliseconds(d time.Duration) float64 {
	return float64(d.Nanoseconds()) / 1e6
}

func main() {
	loops, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	start := time.Now()
	for i := 0; i < loops; i++ {
		go func() {
			for {
			}
		}()
	}
	fmt.Printf("spawn_ms %.3f\n", milliseconds(time.Since(start)))
	var taken []time.Duration
	for till := time.Now().Add(time.Duration(seconds * 1e9)); time.Now().Before(till); {
		before := time.Now()
		time.Sleep(time.Millisecond)
		taken = append(taken, time.Since(before))
	}
	sort.Slice(taken, func(i, j int) bool { return taken[i] < taken[j] })
	fmt.Printf("worst_ms %.3f\n", milliseconds(taken[len(taken)-1]))
	fmt.Printf("p99_ms %.3f\n", milliseconds(taken[(len(taken)*99+99)/100-1]))
}
