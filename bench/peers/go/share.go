// SPDX-License-Identifier: MIT

// Equal loops on all cores: how far the least served and the most served are apart, in per cent.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

var sink int

func count(till time.Time, done chan<- int) {
	rounds, sum := 0, 0
	for ok := true; ok; ok = time.Now().Before(till) {
		for i := 0; i < 1000; i++ {
			sum += i & rounds
		}
		rounds++
	}
	sink = sum
	done <- rounds
}

func main() {
	loops, _ := strconv.Atoi(os.Args[1])
	seconds, _ := strconv.ParseFloat(os.Args[2], 64)
	done, till := make(chan int, loops), time.Now().Add(time.Duration(seconds*1e9))
	for i := 0; i < loops; i++ {
		go count(till, done)
	}
	least, most := <-done, 0
	most = least
	for i := 1; i < loops; i++ {
		rounds := <-done
		if rounds < least {
			least = rounds
		}
		if rounds > most {
			most = rounds
		}
	}
	fmt.Printf("apart %.3f\n", (float64(most)/float64(least)-1)*100)
}
