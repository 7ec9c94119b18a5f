// The keeper of each process: the peer that keeps a copy of its state.
//
//   PLACE-3  The keeper of a process stands in another failure domain, unless one domain has more
//            than half of all processes; then on another host, unless one host has more than half.

#pragma once

#include <string>
#include <utility>
#include <vector>

namespace troupe::runtime {

/// Host and domain of a process. Any texts that are equal within a host, or within a domain, work.
struct process_site {
  std::string host;
  std::string domain;  ///< failure domain, such as a rack; by default the host alone

  process_site(const char* on) : process_site(std::string(on)) {}
  process_site(std::string on, std::string in = {})
      : host(std::move(on)), domain(in.empty() ? host : std::move(in)) {}
};

/// PLACE-3. Each process keeps the states of one other. Empty for one process. Quadratic in the
/// number of processes only where a domain has more than half of them on uneven hosts.
std::vector<int> keepers_of(const std::vector<process_site>& sites);

/// Keepers after processes moved to other hosts. Changes as few entries of `before` as needed to
/// keep PLACE-3 as far as keepers_of; returns `before` if nothing improves. `before` may be empty.
std::vector<int> keepers_again(const std::vector<int>& before,
                               const std::vector<process_site>& sites);

}  // namespace troupe::runtime
