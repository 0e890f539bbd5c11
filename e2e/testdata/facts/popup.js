"use strict";
const state = document.getElementById("state");
document.getElementById("takeover").addEventListener("click", (e) => {
  state.textContent = e.isTrusted ? "Pressed by hand." : "Pressed by script.";
  setTimeout(() => { document.getElementById("later").hidden = false; }, 200);
});
document.getElementById("later").addEventListener("click", () => {
  state.textContent = "Later, for " + document.getElementById("list").value + ".";
});
