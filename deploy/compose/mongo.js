// Creates the replica set and its users at the first start, and later only checks that they exist.
// It runs in the network of mongo-1, because MongoDB lets only localhost create the first user.
const env = process.env;
db = connect("mongodb://127.0.0.1:27017/admin?directConnection=true");

function known() {
  try {
    return db.auth("admin", env.MONGO_ADMIN_PASSWORD).ok === 1;
  } catch (e) {
    return false;
  }
}

if (!known()) {
  try {
    // mongo-1 is the primary if possible, because the users are created there.
    rs.initiate({
      _id: "seqd",
      members: [
        { _id: 0, host: "mongo-1:27017", priority: 2 },
        { _id: 1, host: "mongo-2:27017" },
        { _id: 2, host: "mongo-3:27017" },
      ],
    });
  } catch (e) {
    if (e.codeName !== "AlreadyInitialized") throw e;
  }
  while (!db.hello().isWritablePrimary) sleep(200);
  db.createUser({ user: "admin", pwd: env.MONGO_ADMIN_PASSWORD, roles: ["root"] });
  if (!known()) throw new Error("the user admin cannot log in");
  db.getSiblingDB("seqd").createUser({ user: "seqd", pwd: env.MONGO_PASSWORD, roles: [{ role: "readWrite", db: "seqd" }] });
}
print("the replica set is there");
