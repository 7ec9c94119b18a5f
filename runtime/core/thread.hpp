// Starts threads, and explains the system's refusal to start one.

#pragma once

#include <functional>
#include <string>
#include <thread>

namespace troupe::runtime {

/// Starts a thread that runs `work`. Debuggers show the first 15 characters of `name`. Throws
/// io_error with the text of `refused_thread` if the system refuses.
std::jthread start_thread(const std::string& name, std::function<void()> work);

/// "cannot start the thread 'lane 0.0': Resource temporarily unavailable; ...": the system's error
/// (an errno), the limits in force, and what to do.
std::string refused_thread(const std::string& name, int error_number);

/// True while `start_thread` runs on the calling thread and so handles a refusal. For libraries
/// that cannot handle one, see runtime/refused_threads/refused_threads.cpp.
bool handles_refused_thread();

}  // namespace troupe::runtime
