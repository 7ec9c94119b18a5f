// The data planes of a process of a multi-process run: tensors of tickets, and sums of gradients.

#pragma once

#include "messages/control/rendezvous.hpp"

#include <filesystem>
#include <string>

namespace troupe::actors {

struct shared_resources;

struct data_plane_settings {
  std::string address = "127.0.0.1";  ///< numeric address at which others reach this machine
  std::string secret;                 ///< of the run; peers without it are refused
  std::string run_id;
  double suspicion = 10;  ///< seconds
};

/// The secret of a run, by its folder. Throws input_error when the run has no credentials.
std::string secret_of(const std::filesystem::path& run);

/// A process without ranks gets no windows for sums. Throws io_error when UCX is missing.
void add_data_planes(shared_resources& to,
                     const messages::process_name& who,
                     const data_plane_settings& how,
                     bool hosts_ranks);

}  // namespace troupe::actors
