// The handles of all actors, and every message that they take.

#pragma once

#include "messages/core/type_ids.hpp"
#include "messages/protocol/handles.hpp"
