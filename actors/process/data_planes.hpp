// What moves the bytes of a process that is one of several: tickets' tensors and sums of gradients.

#pragma once

#include "messages/control/rendezvous.hpp"

#include <filesystem>
#include <string>

namespace troupe::actors {

struct node_context;

struct data_plane_settings {
  std::string address = "127.0.0.1";  ///< numeric, of this machine: where others reach it
  std::string secret;                 ///< of the run: who does not know it is refused
  std::string run_id;
  double suspicion = 10;  ///< seconds
};

/// Of a run, by its folder. Throws input_error: it has no credentials.
std::string secret_of(const std::filesystem::path& run);

/// A process that hosts no ranks sums nothing. Throws io_error: there is no UCX.
void add_data_planes(node_context& to,
                     const messages::process_name& who,
                     const data_plane_settings& how,
                     bool hosts_ranks);

}  // namespace troupe::actors
