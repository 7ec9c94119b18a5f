// Threads of ours, and what is said when the system gives none.

#pragma once

#include <functional>
#include <string>
#include <thread>

namespace troupe::runtime {

/// A thread that does `work`, under a name that a debugger shows (15 characters are kept). Throws
/// io_error where the system refuses: `refused_thread` of that name.
std::jthread start_thread(const std::string& name, std::function<void()> work);

/// "cannot start the thread 'lane 0.0': Resource temporarily unavailable; ...": what the system
/// said (an errno), the limits that hold here, and what to do.
std::string refused_thread(const std::string& name, int error_number);

/// True while `start_thread` asks on behalf of the calling thread: a refusal is handled. Libraries
/// that cannot handle one are the program's affair (runtime/refused_threads/refused_threads.cpp).
bool handles_refused_thread();

}  // namespace troupe::runtime
