// Messages of our own between hosts, opt-in: see clock_sync.cpp. Injected code.
#pragma once

#include "interpose/mpi_abi.h"

namespace ddl {

/// When MPI_Init has returned, on every rank, recorded or not.
void sync_clocks_at_init(const void* caller);
/// On entering MPI_Finalize.
void sync_clocks_at_finalize();

}  // namespace ddl
