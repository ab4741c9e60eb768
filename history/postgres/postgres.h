// The one function of libddl-postgres.so.
#pragma once

#include <string>

#include "history/connection.h"

/// Connects, and gives the connection to the caller. Throws ddl::Error.
extern "C" ddl::history::Connection* ddl_open_postgres(const std::string& url);
