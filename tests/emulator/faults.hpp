// What is said when a thread touches memory that it may not, before the process ends as it would.

#pragma once

namespace troupe::emulator {

/// Puts our handler of SIGSEGV before the one that is there, which is then called as ever. To be
/// called again after others, as test frameworks, have put theirs there.
void explain_faults();

}  // namespace troupe::emulator
