package faults

import "slices"

// kinds are the faults of each kind.
func kinds() []Fault {
	return slices.Concat(
		serverFaults(), backendFaults(), protocolFaults(), networkFaults(), notificationFaults(),
		processFaults(), lockFaults(), upkeepFaults(), snapshotFaults(), settingFaults(),
		connectionFaults(), clockFaults(), diskFaults(), durabilityFaults(), memoryFaults(),
		poolerFaults(), standbyFaults(), restoreFaults(), migrationFaults(), shardFaults(),
		clientFaults(),
	)
}
