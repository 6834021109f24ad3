package testenv

import "testing"

// HideServers makes servers outside the PATH impossible to find until the test ends.
func HideServers(t *testing.T) {
	postgres, others := postgresFolder, serverFolder
	t.Cleanup(func() { postgresFolder, serverFolder = postgres, others })
	postgresFolder, serverFolder = t.TempDir(), t.TempDir()
}
